package state

import (
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes the administrator's kubeconfig: one context, named
// like the cluster, with everything inline.
func (d Dir) WriteKubeconfig(name, server string, c Credentials) error {
	cluster, user := clientcmdapi.NewCluster(), clientcmdapi.NewAuthInfo()
	cluster.Server = server
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
	context := clientcmdapi.NewContext()
	context.Cluster, context.AuthInfo = name, name
	config := clientcmdapi.NewConfig()
	config.Clusters[name], config.AuthInfos[name], config.Contexts[name] = cluster, user, context
	config.CurrentContext = name
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(d.Kubeconfig(), text)
}
