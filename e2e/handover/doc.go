// Package handover checks that proxies do not notice when a gateway goes. There is nothing in it but tests.
//
// A case is a crowd of model proxies (proxy.Subscriber) that find real gateway processes by a model of DNS. All watch a
// Service of a real API server whose endpoints change all the time. Then a gateway gets SIGTERM:
//
//   - surge: it was the only one. Another is ready, and in DNS, just before; the one that goes leaves DNS.
//   - two: there were two, which all proxies knew; one goes and leaves DNS.
//   - restart: it is the only one, and is started again at the same address when it has ended, or some time after that.
//
// In one more, nothing goes: connections have a short maximum age, and a gateway that has been restarted gets proxies again.
//
// A case measures how long each proxy was blind (from the end of a stream until the first message of the next),
// and how long each change took until all proxies had it. In none may an endpoint that is there throughout be taken from
// a proxy.
//
// Times are by the clock of the proxies' process. While that, or the machine, stands still, limits do not apply:
// package pulse notices such pauses, and they are subtracted.
//
// The suite is short by default: the default flags. With -long it prints the tables of README.md for many flags,
// and with HANDOVER_BEFORE for another gateway too.
//
// ARCHITECTURE.md, at the root of the repository, shows how the packages of the gateway work together.
package handover
