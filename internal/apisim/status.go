package apisim

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf returns the Status of an error.
func statusOf(err error) *metav1.Status {
	known := apierrors.APIStatus(nil)
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}

// refuse answers with the Status of an error.
func refuse(w http.ResponseWriter, err error) {
	status := statusOf(err)
	answerJSON(w, int(status.Code), status)
}

// failing is the error of a server that answers everything with a code.
func failing(code int) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReasonInternalError, Message: "the server fails",
	}}
}
