package kube

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"
)

func TestTokenExpiry(t *testing.T) {
	token := func(payload string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".sig"
	}
	for _, c := range []struct {
		token string
		want  int64 // 0: none
	}{
		{token(`{"exp":1700000000}`), 1700000000},
		{token(`{"exp":1.7e9,"sub":"x"}`), 1700000000},
		{token(`{"exp":-5}`), 0},
		{token(`{"exp":1e300}`), 253402300799},
		{token(`{"sub":"x"}`), -1}, {token(`{"exp":"soon"}`), -1}, {token(`[]`), -1}, {token(``), -1},
		{"", -1}, {"opaque", -1}, {"a.b", -1}, {"a.b.c.d", -1}, {"a.%%%.c", -1},
	} {
		at, ok := tokenExpiry(c.token)
		if ok != (c.want >= 0) || ok && at.Unix() != c.want {
			t.Errorf("%q: %v, %v, want %d", c.token, at, ok, c.want)
		}
	}
}

func FuzzTokenExpiry(f *testing.F) {
	f.Add("e30.eyJleHAiOjE3MDAwMDAwMDB9.sig")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if at, ok := tokenExpiry(token); ok && (at.Unix() < 0 || at.UTC().Year() > 9999) {
			t.Errorf("%q expires at %v", token, at)
		}
	})
}

// TestWritable: JSON has all times, also those of certificates that are good until an hour of the year 10000.
func TestWritable(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)), time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)), time.Unix(0, 0),
	} {
		if _, err := json.Marshal(writable(at)); err != nil {
			t.Errorf("%v: %v", at, err)
		}
	}
}
