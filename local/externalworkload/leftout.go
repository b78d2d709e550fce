package externalworkload

import "fmt"

// maxProblems is how many problems of one Service have a text.
const maxProblems = 10

// leftOut is what is left out of a Service's slices, and why. The first ones have a
// text; the others are counted.
type leftOut struct {
	named []string
	more  int
}

// add adds a problem of an object.
func (p *leftOut) add(object, format string, args ...any) {
	if len(p.named) == maxProblems {
		p.more++
		return
	}
	p.named = append(p.named, object+": "+fmt.Sprintf(format, args...))
}

// list returns the texts, and how many problems more there are.
func (p *leftOut) list() []string {
	if p.more == 0 {
		return p.named
	}
	return append(p.named[:len(p.named):len(p.named)], fmt.Sprintf("%d more", p.more))
}
