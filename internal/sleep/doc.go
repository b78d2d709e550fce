// Package sleep waits within a context.
package sleep
