// Package page tests the gateway's page for people, / on its admin address, in a real Chromium: what it shows of real
// clusters, what it does when they go and come back, and that hostile texts do nothing.
//
// Without Chromium its test is left out, and reports that; in CI (CI=true) that is a failure. .ci/run installs it.
//
// TestLarge needs none: it measures what the page costs with many clusters, services and viewers. The other test makes the README's screenshots, docs/page.png and docs/page-dark.png: `make screenshots`.
package page
