// Package tierspec computes which endpoints of a service clients get, as docs/preference.md does: tiers, what
// suffices, how clients return, clusters that are taken out, gateways, and the rules that these go together with.
//
// It is test code: the tests of federation and local and the simulator compare the gateway with it. It is
// as plain as can be, computes everything anew from what there is and has been, and knows nothing of the
// gateway's code.
//
// A [Service] is what there is at an instant. Its [State] has the endpoints and how many of them each tier has;
// [State.Needed] returns how many tiers clients need. What clients get in the course of time, while tiers that are not
// needed any more leave, [Sent] returns for a list of instants. [Preference.With] reads what users write in a Service's
// annotations.
package tierspec
