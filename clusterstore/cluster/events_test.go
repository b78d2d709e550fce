package cluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// events makes random events in random order.
type events struct {
	*world
	all       objects // there are
	draw      func(t *rapid.T, resource string) (key string, o metav1.Object)
	resources []string // of the events; one that is listed several times comes more often
}

func (e *events) put(t *rapid.T, resource string) {
	key, o := e.draw(t, resource)
	e.all.set(resource, key, o)
	e.store(resource).Update(o)
}

func (e *events) drop(t *rapid.T, resource string) {
	key, o := e.draw(t, resource)
	delete(e.all[resource], key)
	e.store(resource).Delete(o)
}

func (e *events) relist(t *rapid.T, resource string) {
	delete(e.all, resource)
	for range rapid.IntRange(0, 3).Draw(t, "n") {
		key, o := e.draw(t, resource)
		e.all.set(resource, key, o)
	}
	var list []any
	for _, o := range e.all[resource] {
		list = append(list, o)
	}
	e.store(resource).Replace(list...)
}

// run makes events, checks after each, and removes all objects in the end.
func (e *events) run(t *rapid.T, check func(*rapid.T)) {
	for _, name := range []string{"services", "pods", "endpointslices", "servers", "pods", "externalworkloads", "endpointslices", "servers"} {
		e.put(t, name) // so that most steps find something to change
	}
	resource := rapid.SampledFrom(e.resources)
	t.Repeat(map[string]func(*rapid.T){
		"put":    func(t *rapid.T) { e.put(t, resource.Draw(t, "resource")) },
		"delete": func(t *rapid.T) { e.drop(t, resource.Draw(t, "resource")) },
		"relist": func(t *rapid.T) { e.relist(t, resource.Draw(t, "resource")) },
		"":       func(t *rapid.T) { e.evaluate(); check(t) },
	})
	for name := range e.all {
		e.store(name).Replace()
	}
}
