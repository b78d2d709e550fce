package apisim

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// discover answers API discovery: the list of groups, and of the resources of a version. Kinds that are absent are not in
// it. It returns false for other paths.
func discover(w http.ResponseWriter, path string, absent []string) bool {
	there := slices.DeleteFunc(slices.Clone(kinds[:]), func(k kind) bool { return slices.Contains(absent, k.resource) })
	if path == "/apis" {
		answerJSON(w, http.StatusOK, groupsOf(there))
		return true
	}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, k := range there {
		if strings.TrimSuffix(k.prefix(), "/") == path {
			list.GroupVersion = k.GroupVersion().String()
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: k.resource, Kind: k.Kind, Namespaced: k.namespaced(), Verbs: metav1.Verbs{"create", "delete", "get", "list", "update", "watch"},
			})
		}
	}
	if len(list.APIResources) == 0 {
		return false
	}
	answerJSON(w, http.StatusOK, list)
	return true
}

func groupsOf(there []kind) metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, k := range there {
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
		known := slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group })
		if k.Group != "" && !known {
			list.Groups = append(list.Groups, metav1.APIGroup{
				Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			})
		}
	}
	return list
}

func answerJSON(w http.ResponseWriter, code int, o any) {
	text, err := json.Marshal(o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // fails if the client has gone
}
