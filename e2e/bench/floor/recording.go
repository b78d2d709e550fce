package floor

import (
	"encoding/json"
	"fmt"
	"os"
)

// Recording is what a server has answered.
type Recording struct {
	Get, GetProfile map[string]Answer // by authority
}

// Answer is what one stream has been sent, as encoded.
type Answer struct {
	First [][]byte // what the stream begins with
	Steps [][]byte // one message for each kind of change that may follow
}

// Of returns the answers to a method, Get or GetProfile.
func (r Recording) Of(method string) map[string]Answer {
	if method == "GetProfile" {
		return r.GetProfile
	}
	return r.Get
}

// Write writes the recording to a file.
func (r Recording) Write(path string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return os.WriteFile(path, text, 0o600)
}

// readRecording reads what Write has written.
func readRecording(path string) (r Recording, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("recording %s: %w", path, err)
	}
	return r, nil
}
