package main

import (
	"fmt"
	"net/url"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const rulesFile = "/manifests/monitoring/prometheusrule.yaml"

// checkRunbooks rejects an invalid URL of a page. It also rejects {{, which Prometheus would expand
// as a template.
func checkRunbooks(page string) error {
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.ContainsAny(page, "#{} ") {
		return fmt.Errorf(
			"RUNBOOKS=%s is not the address of a page: give that of docs/operations.md, such as "+
				"https://git.example.com/isthmus/docs/operations.md, without #",
			page,
		)
	}
	return nil
}

// addRunbooks adds the annotation runbook_url to each alert: the URL of its heading on the page.
func addRunbooks(disk filesys.FileSystem, page string) error {
	text, err := disk.ReadFile(rulesFile)
	if err != nil {
		return err
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return fmt.Errorf("%s: %w", rulesFile, err)
	}
	spec, _ := object["spec"].(map[string]any)
	groups, _ := spec["groups"].([]any)
	for _, group := range groups {
		group, _ := group.(map[string]any)
		rules, _ := group["rules"].([]any)
		for _, rule := range rules {
			rule, _ := rule.(map[string]any)
			name, _ := rule["alert"].(string)
			annotations, _ := rule["annotations"].(map[string]any)
			if name == "" || annotations == nil {
				return fmt.Errorf("%s: a rule has no name or no annotations", rulesFile)
			}
			annotations["runbook_url"] = page + "#" + strings.ToLower(name)
		}
	}
	if text, err = yaml.Marshal(object); err != nil {
		return err
	}
	return disk.WriteFile(rulesFile, text)
}
