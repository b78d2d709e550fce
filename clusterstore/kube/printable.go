package kube

import (
	"errors"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"isthmus/internal/text"
)

// Printable makes an error safe to log and show whose text may come from a server or
// an object, as [text.Clean] does. If nothing has to be changed it returns err itself.
func Printable(err error) error {
	message := err.Error()
	if fit := text.Clean(message, text.Long); fit != message {
		return reworded(err, strings.TrimSpace(fit))
	}
	return err
}

// withoutToken returns err or, if its text has the token, an error without it.
func withoutToken(err error, token string) error {
	if token == "" {
		return err
	}
	quoted := strconv.Quote(token)
	text := err.Error()
	if without := strings.NewReplacer(token, "[token]", quoted[1:len(quoted)-1], "[token]").Replace(text); without != text {
		return reworded(err, without)
	}
	return err
}

// reworded returns an error with another text. Of what err was it keeps only that credentials are refused.
func reworded(err error, text string) error {
	if apierrors.IsUnauthorized(err) {
		return apierrors.NewUnauthorized(text)
	}
	return errors.New(text)
}
