package overview

import (
	"cmp"

	"isthmus/internal/adminapi"
)

var clusterOrders = orders[Cluster]{
	{"problems", func(a, b row[Cluster]) int { return cmp.Or(worstFirst(a, b), byName(a, b)) }},
	{"name", byName},
	{"state", func(a, b row[Cluster]) int { return cmp.Or(cmp.Compare(a.of.State, b.of.State), byName(a, b)) }},
	{"since", func(a, b row[Cluster]) int { return cmp.Or(b.of.Since.Compare(a.of.Since), byName(a, b)) }},
}

// byName has the local cluster first.
func byName(a, b row[Cluster]) int {
	local := func(r row[Cluster]) int {
		if r.of.Name == "local" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(local(a), local(b)), cmp.Compare(a.of.Name, b.of.Name), cmp.Compare(a.of.Secret, b.of.Secret))
}

var serviceOrders = orders[Service]{
	{"problems", func(a, b row[Service]) int { return cmp.Or(worstFirst(a, b), byService(a, b)) }},
	{"name", byService},
	{"streams", func(a, b row[Service]) int { return cmp.Or(cmp.Compare(b.of.Streams, a.of.Streams), byService(a, b)) }},
	{"endpoints", func(a, b row[Service]) int {
		return cmp.Or(cmp.Compare(b.of.Endpoints, a.of.Endpoints), byService(a, b))
	}},
}

func byService(a, b row[Service]) int {
	return cmp.Or(cmp.Compare(a.of.Namespace, b.of.Namespace), cmp.Compare(a.of.Name, b.of.Name))
}

var streamOrders = orders[Stream]{
	{"streams", func(a, b row[Stream]) int {
		return cmp.Or(cmp.Compare(b.of.Streams, a.of.Streams), byDestination(a, b))
	}},
	{"destination", byDestination},
}

func byDestination(a, b row[Stream]) int {
	x, y := a.of, b.of
	return cmp.Or(cmp.Compare(x.Destination, y.Destination), cmp.Compare(x.Method, y.Method), cmp.Compare(x.Zone, y.Zone),
		cmp.Compare(x.Node, y.Node), cmp.Compare(x.Namespace, y.Namespace))
}

// eventOrders has one order, in which they are.
var eventOrders = orders[adminapi.Event]{{"newest", func(_, _ row[adminapi.Event]) int { return 0 }}}
