package kube

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
)

// Printable makes an error safe to log and show whose text may come from a server or
// an object: unprintable characters are replaced by blanks, and the text is cut off
// after 500 bytes. If nothing has to be changed it returns err itself.
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

// withoutToken returns err or, if its text has the token, an error without it.
func withoutToken(err error, token string) error {
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

// Clip shortens a text that an error quotes to 80 bytes.
func Clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
