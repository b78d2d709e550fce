package state

import (
	"os"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"isthmus/e2e/object"
)

// WriteKubeconfig writes the administrator's kubeconfig: one context, named
// like the cluster, with everything inline.
func (d Dir) WriteKubeconfig(name, server string, c Credentials) error {
	cluster, user := clientcmdapi.Cluster{Server: server}, clientcmdapi.AuthInfo{}
	for _, file := range []struct {
		into *[]byte
		path string
	}{
		{&cluster.CertificateAuthorityData, c.CA},
		{&user.ClientCertificateData, c.AdminCert},
		{&user.ClientKeyData, c.AdminKey},
	} {
		text, err := os.ReadFile(file.path)
		if err != nil {
			return err
		}
		*file.into = text
	}
	text, err := object.Kubeconfig(name, cluster, user)
	if err != nil {
		return err
	}
	return writeFile(d.Kubeconfig(), text)
}
