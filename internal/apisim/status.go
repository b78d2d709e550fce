package apisim

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func failure(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func expired(message string) *metav1.Status {
	return failure(http.StatusGone, metav1.StatusReasonExpired, message)
}

func forbidden(t target) *metav1.Status {
	return failure(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%s is forbidden", t.resource))
}

func unauthorized() *metav1.Status {
	return failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
}

// refuse answers with a Status.
func refuse(w http.ResponseWriter, s *metav1.Status) { answerJSON(w, int(s.Code), s) }
