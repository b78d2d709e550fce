// Package world fills three clusters with the same meshed Services many times over, for measuring.
//
// In each cluster there are Services web-0000, … with many Pods and Services app-0000, … with few; every Pod is behind
// one of each. West, which the measured server is local to, has links to east and north, and for each Service a federated
// one, web-0000-all, that joins the three.
//
// No controller acts on the objects: EndpointSlices and Pods are written as they would be found in a real cluster, except for fields
// that no Destination server reads. Addresses are of 10.0.0.0/8; nothing dials them.
package world
