package kube

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
)

// Printable returns err, or one with its text made fit to be shown, if that was
// up to a server or to whoever writes an object, and is not: unprintable
// characters are blanks, and what goes beyond 500 bytes is cut off.
func Printable(err error) error {
	const most = 500
	text := err.Error()
	fit := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text[:min(len(text), most)])
	if fit == text {
		return err
	}
	return errors.New(strings.TrimSpace(fit))
}

// withheld returns err, or one without the token if its text has that.
func withheld(err error, token string) error {
	if token == "" {
		return err
	}
	quoted := strconv.Quote(token)
	text := err.Error()
	if without := strings.NewReplacer(token, "[token]", quoted[1:len(quoted)-1], "[token]").Replace(text); without != text {
		return errors.New(without)
	}
	return err
}

// Clip keeps what an error quotes of somebody's text short: 80 bytes of it.
func Clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
