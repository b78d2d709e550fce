// Package page tests the page on Isthmus's admin address in a real Chromium. It covers the display
// of real clusters, the loss and return of clusters, and hostile strings.
//
// Without Chromium, the test is skipped. In CI (CI=true) a missing Chromium is a failure. The
// script .ci/run installs Chromium.
//
// `make screenshots` writes the README's screenshots, docs/page.png and docs/page-dark.png. The
// trial "viewers" of package bench measures the page's cost for many clusters, services and
// viewers.
package page
