// Package page tests the gateway's page for people, / on its admin address, in a real Chromium: what it shows of real
// clusters, what it does when they go and come back, and that hostile texts do nothing.
//
// Without Chromium its test is left out, and reports that; in CI (CI=true) that is a failure. .ci/run installs it.
//
// It makes the README's screenshots too, docs/page.png and docs/page-dark.png: `make screenshots`.
// What the page costs with many clusters, services and viewers is the trial "viewers" of package
// bench.
package page
