package cluster

import (
	"strings"

	"go.uber.org/zap"

	"isthmus/clusterstore/crd"
	"isthmus/clusterstore/follow"
	"isthmus/clusterstore/serviceprofile"
	"isthmus/federation"
)

// profiles follows ServiceProfiles. They are translated once, as they are read. Those
// that can't be used are kept with the reason, since they hide others for the same
// Service.
func (c *Cluster) profiles() follow.Kind[*crd.ServiceProfile, *serviceprofile.Translated] {
	return follow.Kind[*crd.ServiceProfile, *serviceprofile.Translated]{
		Name:   "serviceprofiles",
		Source: c.cfg.Client.Sources.Profiles,
		Serves: c.serves(crd.ProfileVersion.WithResource("serviceprofiles")),
		Compact: func(o *crd.ServiceProfile) (*serviceprofile.Translated, bool) {
			return serviceprofile.Translate(o), true
		},
		Into:    lockedStore[*serviceprofile.Translated]{c.state, c.state.profileStore()},
		Same:    (*serviceprofile.Translated).Equal,
		Changed: c.logUnusable,
	}
}

// logUnusable logs which ServiceProfiles are not, or not fully, used.
func (c *Cluster) logUnusable(key string, f *serviceprofile.Translated, ok bool) {
	switch {
	case !ok || f.Problem == "":
	case f.Profile == nil:
		c.cfg.Log.Warn("a ServiceProfile can't be used", zap.String("profile", key), zap.String("reason", f.Problem))
	default:
		c.cfg.Log.Warn("a part of a ServiceProfile can't be used", zap.String("profile", key), zap.String("reason", f.Problem))
	}
}

func (s *state) profileStore() storeFuncs[*serviceprofile.Translated] {
	all := s.own.profiles
	get := func(key string) (*serviceprofile.Translated, bool) { return all[key], all[key] != nil }
	return newStoreFuncs(get, (*serviceprofile.Translated).Equal, s.setProfile, keysOf(all, func(*serviceprofile.Translated) bool { return true }))
}

// setProfile stores or deletes a ServiceProfile.
func (s *state) setProfile(key string, f *serviceprofile.Translated, exists bool) {
	a := s.own
	if old := a.profiles[key]; old != nil && old.Profile == nil {
		a.rejected--
	}
	if !exists {
		delete(a.profiles, key)
		s.setUnusable("ServiceProfile "+key, "")
	} else {
		a.profiles[key] = f
		s.setUnusable("ServiceProfile "+key, f.Problem)
		if f.Profile == nil {
			a.rejected++
		}
	}
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
