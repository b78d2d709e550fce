package kube

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	mcs "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// WithStatus is a client of a kind whose status is written by itself, with the methods that are used of client-go's.
type WithStatus[T any] interface {
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	UpdateStatus(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// MCS are clients of the MCS-API in one version, each for a namespace.
type MCS struct {
	ServiceImports func(namespace string) WithStatus[*mcs.ServiceImport]
	ServiceExports func(namespace string) WithStatus[*mcs.ServiceExport]
}

// NewMCS makes clients of the MCS-API in that version: v1beta1 or v1alpha1, which have the same fields. It sends no request.
func NewMCS(version string, config *rest.Config, client *http.Client) (MCS, error) {
	v := schema.GroupVersion{Group: mcs.GroupName, Version: version}
	s := runtime.NewScheme()
	s.AddKnownTypes(v, &mcs.ServiceImport{}, &mcs.ServiceExport{})
	metav1.AddToGroupVersion(s, v)
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"}) // for errors
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &v, "/apis", serializer.NewCodecFactory(s).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	api, err := rest.RESTClientForConfigAndClient(c, client)
	if err != nil {
		return MCS{}, err
	}
	options := runtime.NewParameterCodec(s)
	return MCS{
		ServiceImports: func(namespace string) WithStatus[*mcs.ServiceImport] {
			return gentype.NewClient(mcs.ServiceImportPluralName, api, options, namespace, func() *mcs.ServiceImport { return &mcs.ServiceImport{} })
		},
		ServiceExports: func(namespace string) WithStatus[*mcs.ServiceExport] {
			return gentype.NewClient(mcs.ServiceExportPluralName, api, options, namespace, func() *mcs.ServiceExport { return &mcs.ServiceExport{} })
		},
	}, nil
}
