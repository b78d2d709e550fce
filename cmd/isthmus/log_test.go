package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
)

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		level string
		said  string // of our levels, what gets through
		v     int    // how deep client-go may go
	}{
		{"panic", "", 0}, {"fatal", "", 0}, {"error", "E", 0}, {"warn", "WE", 0}, {"warning", "WE", 0},
		{"info", "IWE", 2}, {"INFO", "IWE", 2}, {"debug", "DIWE", 6}, {"trace", "DIWE", 10},
	} {
		l, err := parseLevel(c.level)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		log := newLogger(l, "plain", &b)
		log.Debug("D")
		log.Info("I")
		log.Warn("W")
		log.Error("E")
		said := ""
		for line := range strings.Lines(b.String()) {
			fields := strings.Fields(line)
			said += fields[len(fields)-1]
		}
		if said != c.said || l.v != c.v {
			t.Errorf("%s: says %q and -v=%d, want %q and %d", c.level, said, l.v, c.said, c.v)
		}
	}
}

func TestJSONLog(t *testing.T) {
	var b bytes.Buffer
	newLogger(level{zap.InfoLevel, 0}, "json", &b).Info("hello", zap.String("cluster", "east"))
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["msg"] != "hello" || got["level"] != "info" || got["cluster"] != "east" || got["ts"] == nil {
		t.Errorf("%v", got)
	}
}

// TestKlog: what has a level in klog is debug to us, as deep as its -v goes.
func TestKlog(t *testing.T) {
	for _, c := range []struct {
		level level
		want  string
	}{
		{level{zap.ErrorLevel, 0}, "ERROR broken"},
		{level{zap.InfoLevel, 2}, "INFO zero;,ERROR broken"},
		{level{zap.DebugLevel, 2}, "INFO zero;,DEBUG two,ERROR broken"},
		{level{zap.DebugLevel, 10}, "INFO zero;,DEBUG two,DEBUG ten,ERROR broken"},
	} {
		var b bytes.Buffer
		log := zapr.NewLogger(forKlog(newLogger(c.level, "plain", &b), c.level.v)).WithValues("k", "v")
		log.Info("zero\nlines\n")
		log.V(2).Info("two")
		log.V(10).Info("ten")
		log.V(11).Info("eleven")
		log.V(8).Info("Response Body", "body", "secret")
		log.V(8).Info("Request Body", "body", "secret")
		log.Error(errors.New("why"), "broken")
		var got []string
		for line := range strings.Lines(b.String()) {
			fields := strings.Fields(line)
			if fields[2] != "client-go" || !strings.Contains(line, `"k": "v"`) {
				t.Errorf("who says it, or about what, is missing: %s", line)
			}
			got = append(got, fields[1]+" "+fields[3])
		}
		if strings.Join(got, ",") != c.want {
			t.Errorf("%v: %q, want %q", c.level, got, c.want)
		}
	}
}
