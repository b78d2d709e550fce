package grpcapi

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(crowdOf); addr != "" {
		if err := runCrowd(addr); err != nil {
			fmt.Fprintln(os.Stderr, "clients:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
