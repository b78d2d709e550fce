package bench

// Lab is where trials are made, and with what. All fields have to be set, but for Isthmus.
type Lab struct {
	Scale   Scale
	Dir     string   // for files
	Isthmus string   // the gateway's program; empty: harness.Isthmus
	Floor   []string // the command that runs ServeFloor; the recording's path is appended
	List    []string // the command that runs fleet.List and prints the number; the kubeconfig's path is appended

	Log func(format string, args ...any) // gets a line for each step
}
