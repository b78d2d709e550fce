// Package fleet runs many light Kubernetes clusters at once, for measuring how costs grow: fifty real API servers are too
// much for one machine. Its API servers are those of package apisim, over plain HTTP unless Config.TLS is set, so that they
// cost little besides what is measured. [Config] is what there is, and [Fleet.Flip] changes it.
package fleet
