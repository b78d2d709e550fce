package logging

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
		lines string // written, of one line for each level
		klog  int    // client-go's verbosity
	}{
		{"panic", "", 0}, {"fatal", "", 0}, {"error", "E", 0}, {"warn", "WE", 0}, {"warning", "WE", 0},
		{"info", "IWE", 2}, {"INFO", "IWE", 2}, {"debug", "DIWE", 6}, {"trace", "DIWE", 7},
	} {
		l, ok := ParseLevel(c.level)
		if !ok {
			t.Fatalf("%s is no level", c.level)
		}
		var b bytes.Buffer
		log := New(l, "plain", &b)
		log.Debug("D")
		log.Info("I")
		log.Warn("W")
		log.Error("E")
		lines := ""
		for line := range strings.Lines(b.String()) {
			fields := strings.Fields(line)
			lines += fields[len(fields)-1]
		}
		if lines != c.lines || l.klog != c.klog {
			t.Errorf("%s: lines %q and -v=%d, want %q and %d", c.level, lines, l.klog, c.lines, c.klog)
		}
	}
}

func TestJSONLog(t *testing.T) {
	var b bytes.Buffer
	New(Level{zap.InfoLevel, 0}, "json", &b).Info("hello", zap.String("cluster", "east"))
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["msg"] != "hello" || got["level"] != "info" || got["cluster"] != "east" || got["ts"] == nil {
		t.Errorf("%v", got)
	}
}

// TestKlog: lines of klog's levels are logged as debug, down to its -v.
func TestKlog(t *testing.T) {
	for _, c := range []struct {
		level Level
		want  string
	}{
		{Level{zap.ErrorLevel, 0}, "ERROR broken"},
		{Level{zap.InfoLevel, 2}, "INFO zero;,ERROR broken"},
		{Level{zap.DebugLevel, 2}, "INFO zero;,DEBUG two,ERROR broken"},
		{Level{zap.DebugLevel, 10}, "INFO zero;,DEBUG two,DEBUG ten,ERROR broken"},
	} {
		var b bytes.Buffer
		log := zapr.NewLogger(forKlog(New(c.level, "plain", &b), c.level.klog)).WithValues("k", "v")
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
				t.Errorf("the logger's name or a field is missing: %s", line)
			}
			got = append(got, fields[1]+" "+fields[3])
		}
		if strings.Join(got, ",") != c.want {
			t.Errorf("%v: %q, want %q", c.level, got, c.want)
		}
	}
}
