// Package decode reads what API servers send of the objects that are followed: object by
// object, as they come, with only those fields that are used.
//
//	meta, err := sources.Pods.List(ctx, options, func(pod *corev1.Pod, refused *decode.Refused) error {
//		…
//	})
package decode
