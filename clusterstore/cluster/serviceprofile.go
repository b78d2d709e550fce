package cluster

import (
	"strings"

	"go.uber.org/zap"

	"isthmus/clusterstore/decode"
	"isthmus/clusterstore/follow"

	"isthmus/federation"
)

// profiles follows ServiceProfiles. They are translated once, as they are read. Those
// that can't be used are kept with the reason, since they hide others for the same
// Service.
func (c *Cluster) profiles() follow.Kind[*decode.ServiceProfile, *Translated] {
	return follow.Kind[*decode.ServiceProfile, *Translated]{
		Name:   "serviceprofiles",
		Source: c.cfg.Client.Sources.Profiles,
		Serves: c.serves(decode.ProfileVersion.WithResource("serviceprofiles")),
		Compact: func(o *decode.ServiceProfile) (*Translated, bool) {
			return Translate(o), true
		},
		Into:    mapStore(c.state, c.state.own.profiles, (*Translated).Equal, c.state.setProfile),
		Changed: c.logUnusable,
	}
}

// logUnusable logs which ServiceProfiles are not, or not fully, used.
func (c *Cluster) logUnusable(key string, f *Translated, ok bool) {
	switch {
	case !ok || f.Problem == "":
	case f.Profile == nil:
		c.cfg.Log.Warn("a ServiceProfile can't be used", zap.String("profile", key), zap.String("reason", f.Problem))
	default:
		c.cfg.Log.Warn("a part of a ServiceProfile can't be used", zap.String("profile", key), zap.String("reason", f.Problem))
	}
}

// setProfile follows a change of the ServiceProfile with that key; nil: there is none any longer.
func (s *state) setProfile(key string, before, now *Translated) {
	if before != nil && before.Profile == nil {
		s.own.rejected--
	}
	if now != nil && now.Profile == nil {
		s.own.rejected++
	}
	problem := ""
	if now != nil {
		problem = now.Problem
	}
	s.setUnusable("ServiceProfile "+key, problem)
	namespace, name := follow.SplitKey(key)
	if id, ok := profiled(name); ok {
		s.markTopic(namespace, Topic{Service: id})
		if e := s.services[id]; e != nil && e.spec != nil {
			for _, ip := range e.spec.ClusterIPs {
				s.markAddress(namespace, ip)
			}
		}
	}
}

// profiled returns the Service that ServiceProfiles with that name are for.
func profiled(name string) (federation.ServiceID, bool) {
	parts := strings.SplitN(name, ".", 4)
	if len(parts) < 4 || parts[2] != "svc" {
		return federation.ServiceID{}, false
	}
	return federation.ServiceID{Namespace: parts[1], Name: parts[0]}, true
}
