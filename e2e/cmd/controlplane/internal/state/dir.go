package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
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

func (d Dir) pidFile() string { return d.path("pid") }

// Lock makes the folder if need be and claims it for this process until
// release is called or the process ends. It fails if another process serves
// the folder.
func (d Dir) Lock() (release func() error, err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(d.pidFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	claim := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &claim); err != nil {
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
			err = fmt.Errorf("%s is being served by another process", d)
		}
		return nil, errors.Join(err, file.Close())
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.WriteString(strconv.Itoa(os.Getpid()) + "\n") // for people to read
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file.Close, nil
}

// writeFile writes a file as a whole: a reader sees the old text or the new.
func writeFile(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
