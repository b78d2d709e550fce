package commands

import (
	"fmt"
	"strings"

	pb "github.com/linkerd/linkerd2-proxy-api/go/destination"
	"github.com/linkerd/linkerd2-proxy-api/go/http_types"
)

// maxNesting is how deep conditions are described: the text of each is a part of that around it, so all together would
// take the square of a depth that a hostile gateway chooses.
const maxNesting = 16

// requestCondition describes which requests a route is for, in one line. Conditions within maxNesting others are "…".
func requestCondition(m *pb.RequestMatch, nesting int) string {
	if nesting > maxNesting {
		return "…"
	}
	within := func(m *pb.RequestMatch) string { return requestCondition(m, nesting+1) }
	switch x := m.GetMatch().(type) {
	case *pb.RequestMatch_All:
		return joinConditions(x.All.GetMatches(), " and ", "every request", within)
	case *pb.RequestMatch_Any:
		return joinConditions(x.Any.GetMatches(), " or ", "no request", within)
	case *pb.RequestMatch_Not:
		return "not " + within(x.Not)
	case *pb.RequestMatch_Path:
		return fmt.Sprintf("path %q", x.Path.GetRegex())
	case *pb.RequestMatch_Method:
		if name, ok := x.Method.GetType().(*http_types.HttpMethod_Unregistered); ok {
			return fmt.Sprintf("method %q", name.Unregistered)
		}
		return "method " + x.Method.GetRegistered().String()
	}
	return "?"
}

// responseCondition describes which responses a class is for, likewise.
func responseCondition(m *pb.ResponseMatch, nesting int) string {
	if nesting > maxNesting {
		return "…"
	}
	within := func(m *pb.ResponseMatch) string { return responseCondition(m, nesting+1) }
	switch x := m.GetMatch().(type) {
	case *pb.ResponseMatch_All:
		return joinConditions(x.All.GetMatches(), " and ", "every response", within)
	case *pb.ResponseMatch_Any:
		return joinConditions(x.Any.GetMatches(), " or ", "no response", within)
	case *pb.ResponseMatch_Not:
		return "not " + within(x.Not)
	case *pb.ResponseMatch_Status:
		return "status " + statusRange(x.Status.GetMin(), x.Status.GetMax())
	}
	return "?"
}

// joinConditions joins the conditions of a list with a word, in parentheses if
// there is more than one; empty describes a list without any.
func joinConditions[M any](list []M, word, empty string, text func(M) string) string {
	var parts []string
	for _, m := range list {
		parts = append(parts, text(m))
	}
	switch len(parts) {
	case 0:
		return empty
	case 1:
		return parts[0]
	}
	return "(" + strings.Join(parts, word) + ")"
}

// statusRange describes a range of status codes, of which zero is no bound.
func statusRange(low, high uint32) string {
	switch {
	case low == high && low != 0:
		return fmt.Sprint(low)
	case low == 0 && high == 0:
		return "any"
	case high == 0:
		return fmt.Sprintf("from %d", low)
	case low == 0:
		return fmt.Sprintf("up to %d", high)
	}
	return fmt.Sprintf("%d-%d", low, high)
}
