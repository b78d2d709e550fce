package shop

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"text/template"
)

//go:embed objects/*.yaml
var objectFiles embed.FS

var objects = template.Must(template.New("").Option("missingkey=error").ParseFS(objectFiles, "objects/*.yaml"))

// apply writes the objects of a template.
func (c *Cluster) apply(ctx context.Context, name string, data any) error {
	var text strings.Builder
	if err := objects.ExecuteTemplate(&text, name, data); err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	return c.ApplyYAML(ctx, text.String())
}
