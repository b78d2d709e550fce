package client

import "time"

// serviceEntry is one service of /debug/services of a gateway, and of "isthmus services
// -o json".
type serviceEntry struct {
	Service     string           `json:"service"`
	Federated   bool             `json:"federated"`
	Members     []memberEntry    `json:"members"`
	Ports       []portEntry      `json:"ports"`
	Streams     int              `json:"streams"`
	Problems    []string         `json:"problems,omitempty"`
	Preference  *preferenceEntry `json:"preference,omitempty"`
	Clients     []clientsEntry   `json:"clients,omitempty"`
	MoreClients int              `json:"moreClients,omitempty"`
}

type memberEntry struct {
	Cluster string `json:"cluster"`
	Service string `json:"service"`
	Reason  string `json:"reason,omitempty"`
}

type portEntry struct {
	Port    uint16            `json:"port"`
	Members []portMemberEntry `json:"members"`
}

type portMemberEntry struct {
	Cluster       string   `json:"cluster"`
	Service       string   `json:"service"`
	Endpoints     int      `json:"endpoints"`
	Conflicts     int      `json:"conflicts,omitempty"`
	Refused       int      `json:"refused,omitempty"`
	Updates       uint64   `json:"updates"`
	ConflictsWith []string `json:"conflictsWith,omitempty"`
	Refusals      []string `json:"refusals,omitempty"`
}

type preferenceEntry struct {
	Prefer      string `json:"prefer"`
	MinReady    string `json:"minReady"`
	ReturnAfter string `json:"returnAfter"`
	ReturnOver  string `json:"returnOver"`
}

type clientsEntry struct {
	Port     uint16      `json:"port"`
	Zone     string      `json:"zone"`
	Instance string      `json:"instance,omitempty"`
	Node     string      `json:"node,omitempty"`
	Tiers    []tierEntry `json:"tiers"`
	Since    time.Time   `json:"since"`
	Why      string      `json:"why"`
	WaitsFor string      `json:"returnWaitsFor,omitempty"`
	Next     *time.Time  `json:"nextStep,omitempty"`
}

type tierEntry struct {
	Tier  string `json:"tier"`
	InUse bool   `json:"inUse"`
	Ready int    `json:"ready"`
	Known int    `json:"known,omitempty"`
	Sent  int    `json:"sent"`
}
