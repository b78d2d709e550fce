package externalworkload

import "fmt"

// maxProblems is how many problems of one Service are named.
const maxProblems = 10

// problems is what is left out of a Service's slices, and why. Beyond the first
// ones it only counts.
type problems struct {
	named []string
	more  int
}

// add takes one more: whose it is, and what.
func (p *problems) add(whose, format string, args ...any) {
	if len(p.named) == maxProblems {
		p.more++
		return
	}
	p.named = append(p.named, whose+": "+fmt.Sprintf(format, args...))
}

// list is what to tell.
func (p *problems) list() []string {
	if p.more == 0 {
		return p.named
	}
	return append(p.named[:len(p.named):len(p.named)], fmt.Sprintf("%d more", p.more))
}
