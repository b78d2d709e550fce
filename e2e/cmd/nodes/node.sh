#!/usr/bin/env bash
# The first process of a node. It starts containerd, kubelet and kube-proxy. The script runs in its
# own mount, network, PID, IPC and UTS namespaces, and everything that it does ends with these
# namespaces. Only the cgroups remain. The caller removes them.
#
#   node.sh NAME NUMBER DIR BIN KUBECONFIG CGROUP
#
# The node may write to DIR. The images are in DIR/../images/*.tar. The script waits until the
# caller has added eth0 to the network namespace.
set -euo pipefail
name=$1 number=$2 dir=$3 bin=$4 kubeconfig=$5 cgroup=$6 stage=${7:-outside}

# In each hierarchy, the node's cgroups are a separate tree below the cgroup of the caller.
if [ "$stage" = outside ]; then
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    path=/sys/fs/cgroup
    for part in "$cgroup" "$name"; do
      sed 's/[a-z]*/+&/g' "$path/cgroup.controllers" >"$path/cgroup.subtree_control"
      path=$path/$part
      mkdir -p "$path"
    done
    echo 0 >"$path/cgroup.procs"
  else
    while IFS=: read -r _ list path; do
      [ -n "$list" ] || continue # the hierarchy of cgroups v2 has no controllers
      path=/sys/fs/cgroup/${list#name=}$path
      for part in "$cgroup" "$name"; do
        mkdir -p "$path/$part"
        for file in cpuset.cpus cpuset.mems; do
          [ ! -e "$path/$file" ] || cat "$path/$file" >"$path/$part/$file"
        done
        path=$path/$part
      done
      echo 0 >"$path/cgroup.procs"
    done <<<"$(cat /proc/self/cgroup)" # read before the loop changes it
  fi
  exec unshare --cgroup bash "$0" "$name" "$number" "$dir" "$bin" "$kubeconfig" "$cgroup" inside
fi

hostname "$name"
mount --make-rprivate /
mount --make-rshared / # kubelet needs shared mounts
mount -t proc proc /proc
v2=; [ ! -e /sys/fs/cgroup/cgroup.controllers ] || v2=1
mount -t sysfs sysfs /sys
if [ -n "$v2" ]; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir /sys/fs/cgroup/init
  echo 0 >/sys/fs/cgroup/init/cgroup.procs
  sed 's/[a-z]*/+&/g' /sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control
else
  mount -t tmpfs tmpfs /sys/fs/cgroup
  while IFS=: read -r _ list _; do
    [ -n "$list" ] || continue
    mkdir -p "/sys/fs/cgroup/${list#name=}"
    case $list in
      name=*) mount -t cgroup -o "none,$list" cgroup "/sys/fs/cgroup/${list#name=}" ;;
      *) mount -t cgroup -o "$list" cgroup "/sys/fs/cgroup/$list" ;;
    esac
  done </proc/self/cgroup
fi

# kubelet changes these settings of the whole machine unless they have the values that it needs. The
# bind mounts show kubelet files with these values, so that it does not change the machine.
mkdir -p "$dir/lib" "$dir/log" "$dir/settings" "$dir/cni"
while read -r setting value; do
  echo "$value" >"$dir/settings/${setting//\//-}"
  mount --bind "$dir/settings/${setting//\//-}" "/proc/sys/$setting"
done <<'END'
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
END
mount --bind "$dir/lib" /var/lib
mount --bind "$dir/log" /var/log
mount -t tmpfs tmpfs /run

# Node N has the address 172.31.0.N, and its Pods have the network 10.244.N.0/24.
until ip link show eth0 >/dev/null 2>&1; do sleep 0.1; done
ip link set lo up
ip address add "172.31.0.$number/24" dev eth0
ip link set eth0 up
ip route add default via 172.31.0.1
for other in 11 12 13 14 15; do
  [ "$other" = "$number" ] || ip route add "10.244.$other.0/24" via "172.31.0.$other"
done
echo 1 >/proc/sys/net/ipv4/ip_forward

cat >"$dir/cni/pods.conflist" <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp",
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.$number.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
cat >"$dir/containerd.toml" <<END
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "nodes.test/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true # lowering the score needs CAP_SYS_RESOURCE, which root may lack
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$bin"
    conf_dir = "$dir/cni"
END
cat >"$dir/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
clusterDNS: [10.0.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
resolvConf: /dev/null
volumePluginDir: /var/lib/kubelet/plugins-exec
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
END
cat >"$dir/kube-proxy.yaml" <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.244.0.0/16
hostnameOverride: $name
clientConnection: {kubeconfig: $kubeconfig}
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
END

containerd --config "$dir/containerd.toml" >>"$dir/containerd.log" 2>&1 &
until ctr version >/dev/null 2>&1; do sleep 0.2; done
for image in "$dir"/../images/*.tar; do
  ctr -n k8s.io images import "$image" >>"$dir/containerd.log"
done
"$bin/kubelet" --config "$dir/kubelet.yaml" --kubeconfig "$kubeconfig" --hostname-override "$name" --node-ip "172.31.0.$number" \
  >>"$dir/kubelet.log" 2>&1 &
"$bin/kube-proxy" --config "$dir/kube-proxy.yaml" >>"$dir/kube-proxy.log" 2>&1 &
wait -n
echo "$name: containerd, kubelet or kube-proxy has exited: see the logs in $dir"
