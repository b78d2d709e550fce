package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// binary is a program for one platform, and what the Go tool has noted in it.
type binary struct {
	path     string
	data     []byte
	info     *debug.BuildInfo
	settings map[string]string
	version  string
	time     time.Time // of all that is in its image
}

// readBinary reads a program that the Go tool has built. Without a version it has the one that the Go tool has found.
func readBinary(path, version string) (*binary, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b := &binary{path: path, data: data, info: info, version: cmp.Or(version, info.Main.Version), settings: make(map[string]string)}
	for _, s := range info.Settings {
		b.settings[s.Key] = s.Value
	}
	if b.settings["CGO_ENABLED"] != "0" {
		return nil, fmt.Errorf("%s: built with cgo, so that it needs libraries: set CGO_ENABLED=0", path)
	}
	b.time, err = b.when()
	return b, err
}

// when returns the time that SOURCE_DATE_EPOCH names, or that of the commit that the program was built from, or else 1970.
func (b *binary) when() (time.Time, error) {
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		return time.Unix(seconds, 0).UTC(), nil
	}
	if at := b.settings["vcs.time"]; at != "" {
		return time.Parse(time.RFC3339, at)
	}
	return time.Unix(0, 0).UTC(), nil
}

func (b *binary) platform() v1.Platform {
	return v1.Platform{OS: b.settings["GOOS"], Architecture: b.settings["GOARCH"]}
}
