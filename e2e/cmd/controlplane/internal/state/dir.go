package state

import (
	"os"
	"path/filepath"
	"strconv"
)

// Dir is the folder of one cluster.
type Dir string

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (d Dir) Kubeconfig() string { return d.path("kubeconfig") }

// EtcdData is the path of etcd's data.
func (d Dir) EtcdData() string { return d.path("etcd") }

// Certificates is the path of the folder that the API server may write
// certificates to. It needs none there, but requires the flag.
func (d Dir) Certificates() string { return d.path("certificates") }

// WritePID notes this process, for people to read.
func (d Dir) WritePID() error {
	return writeFile(d.path("pid"), []byte(strconv.Itoa(os.Getpid())+"\n"))
}

// writeFile writes a file as a whole: a reader sees the old text or the new.
func writeFile(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
