package commands

import (
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"

	"isthmus/internal/adminapi"
)

// profile is what a proxy holds after the messages of one GetProfile stream, which
// is the last message. Its zero value is that of a proxy before the first message.
type profileState struct {
	*pb.DestinationProfile
	address netip.AddrPort  // of its endpoint; not valid: there is none
	sent    json.RawMessage // the message
}

func (p *profileState) started() bool { return p.DestinationProfile != nil }

// apply replaces the profile by that of a message. The error names what a server
// must not send.
func (p *profileState) apply(m *pb.DestinationProfile) error {
	sent, err := messageJSON(m)
	if err != nil {
		return errors.New("a profile that has no JSON, such as a duration out of range: it is ignored")
	}
	*p = profileState{DestinationProfile: m, sent: sent}
	if m.GetEndpoint() != nil {
		p.address, err = decodeAddress(m.GetEndpoint().GetAddr())
	}
	return err
}

func (p *profileState) output(at time.Time, authority string) any {
	return adminapi.ProfileOutput{Time: at, Authority: authority, Address: p.address, Sent: p.sent}
}
