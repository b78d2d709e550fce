package overview

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// serveLive sends a viewer what it wants to see, and then what has changed of that, until it
// goes, is too slow, or End.
func (p *Page) serveLive(w http.ResponseWriter, r *http.Request) {
	if fromElsewhere(w, r) {
		return
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many viewers are served live: try again", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	v := viewer{w: w, control: http.NewResponseController(w), query: parseQuery(r.URL.Query()), sent: make(map[string][]byte)}
	// The server's limits are for answers that end. Without read deadline the request's context ends
	// when the viewer goes, and not after the server's ReadTimeout.
	_ = v.control.SetReadDeadline(time.Time{})
	every := time.NewTicker(lookEvery / 4) // most of these times there is no newer World
	defer every.Stop()
	for v.show(p.world()) {
		select {
		case <-every.C:
		case <-r.Context().Done():
			return
		case <-p.ended:
			return
		}
	}
}

// viewer is somebody who is served live.
type viewer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	query   query

	world  *World            // that it was shown last
	sent   map[string][]byte // by section, as JSON
	sentAt time.Time
}

// show sends what differs from what the viewer has, or the time if it has got nothing for long. It
// returns whether the viewer takes it.
func (v *viewer) show(w *World) bool {
	if w == v.world {
		return v.tick()
	}
	v.world = w
	changed := make(map[string]json.RawMessage)
	for name, section := range w.sections(v.query) {
		text, err := json.Marshal(section)
		if err != nil {
			panic(err) // no section has a value that can't be encoded
		}
		if !bytes.Equal(text, v.sent[name]) {
			changed[name], v.sent[name] = text, text
		}
	}
	if len(changed) == 0 {
		return v.tick()
	}
	return v.send("change", changed)
}

func (v *viewer) tick() bool {
	return time.Since(v.sentAt) < tickEvery || v.send("tick", make(map[string]json.RawMessage))
}

// send sends one event. It has the time, by which the viewer's clock may be wrong.
func (v *viewer) send(event string, data map[string]json.RawMessage) bool {
	v.sentAt = time.Now()
	data["now"], _ = v.sentAt.MarshalJSON() // of a year below 10,000
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // all of it is JSON already
	}
	_ = v.control.SetWriteDeadline(v.sentAt.Add(take)) // it fails only if the writer is no connection's, as in tests
	_, err = v.w.Write(bytes.Join([][]byte{[]byte("event: " + event + "\nretry: 3000\ndata: "), text, []byte("\n\n")}, nil))
	return err == nil && v.control.Flush() == nil
}
