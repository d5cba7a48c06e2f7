"""`penstock generate kubernetes`: a cluster as a StatefulSet, with the resources around it.

    Service penstock-peers       headless: a name for each node, also while it is not ready, since
                                 the nodes found the cluster before any of them is
    Service penstock             where clients begin; ready nodes only
    PodDisruptionBudget          one node at a time may be taken away: a majority stays
    StatefulSet                  a disk for each node that stays with it, started all at once (they
                                 wait for each other), replaced one after the other

A pod's number is its node's id less one. A node's disk is its identity: a pod whose volume is lost
does not come back under its old id, but as a new node (see the guide on operating a cluster).
"""

import re
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from penstock.cli.admin import Json, print_text
from penstock.core.version import __version__

NODES_MAX = 9
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
SIZE = re.compile(r"[1-9][0-9]{0,6}(Mi|Gi|Ti)")

SERVICES = """\
# A Penstock cluster for Kubernetes, written by `penstock generate kubernetes` {version}.
#   kubectl create secret generic -n NAMESPACE {name}-cluster-key \\
#     --from-literal=cluster.key=$(openssl rand -hex 32)     once: the nodes know each other by it
#   kubectl apply -n NAMESPACE -f penstock.yaml
#   kubectl port-forward -n NAMESPACE service/{name} 8080
# Anybody who reaches the ports may read and change everything: the NetworkPolicy lets in only pods
# with the label penstock-client=true, if the network of your cluster heeds it.
apiVersion: v1
kind: Service
metadata:
  name: {name}-peers
  labels: {{app.kubernetes.io/name: {name}}}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{app.kubernetes.io/name: {name}}}
  ports:
    - {{name: kafka, port: 9092}}
    - {{name: http, port: 8080}}
    - {{name: peer, port: 9192}}
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
  labels: {{app.kubernetes.io/name: {name}}}
spec:
  selector: {{app.kubernetes.io/name: {name}}}
  ports:
    - {{name: kafka, port: 9092}}
    - {{name: http, port: 8080}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {name}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{app.kubernetes.io/name: {name}}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {name}
spec:
  podSelector:
    matchLabels: {{app.kubernetes.io/name: {name}}}
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector: {{matchLabels: {{app.kubernetes.io/name: {name}}}}}
    - from:
        - podSelector: {{matchLabels: {{penstock-client: "true"}}}}
      ports:
        - {{port: 9092}}
        - {{port: 8080}}
---
"""

SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {name}
  labels: {{app.kubernetes.io/name: {name}}}
spec:
  serviceName: {name}-peers
  replicas: {nodes}
  # The founders wait for each other: one after the other, none would ever be ready.
  podManagementPolicy: Parallel
  updateStrategy: {{type: RollingUpdate}}
  selector:
    matchLabels: {{app.kubernetes.io/name: {name}}}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: {name}}}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "8080"
        prometheus.io/path: /metrics
    spec:
      # A node that stops hands over what it leads and finishes what is under way.
      terminationGracePeriodSeconds: 60
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        fsGroup: 10001
        seccompProfile: {{type: RuntimeDefault}}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: {spread}
          labelSelector:
            matchLabels: {{app.kubernetes.io/name: {name}}}
      containers:
        - name: penstock
          image: {image}
          command: [/bin/sh, -c]
          args:
            - |
              host=$HOSTNAME.{name}-peers.$NAMESPACE.svc
              exec penstock serve --data=/var/lib/penstock \\
                --node-id=$(( ${{HOSTNAME##*-}} + 1 )) \\
                --cluster={cluster} \\
                --cluster-key-file=/run/penstock/cluster.key \\
                --kafka=0.0.0.0:9092 --advertise-kafka=$host:9092 \\
                --http=0.0.0.0:8080 --advertise-http=$host:8080 \\
                --peer=0.0.0.0:9192 --rack="$NODE_NAME" \\
                --web.hosts={name},{name}.$NAMESPACE,{name}.$NAMESPACE.svc \\
                --log.format=json --insecure
          env:
            - name: NAMESPACE
              valueFrom: {{fieldRef: {{fieldPath: metadata.namespace}}}}
            - name: NODE_NAME
              valueFrom: {{fieldRef: {{fieldPath: spec.nodeName}}}}
          ports:
            - {{name: kafka, containerPort: 9092}}
            - {{name: http, containerPort: 8080}}
            - {{name: peer, containerPort: 9192}}
          # Recovery reads what a crash left behind; founding waits for all nodes.
          startupProbe:
            httpGet: {{path: /startupz, port: http}}
            periodSeconds: 5
            failureThreshold: 120
          livenessProbe:
            httpGet: {{path: /livez, port: http}}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {{path: /readyz, port: http}}
            periodSeconds: 3
            timeoutSeconds: 3
          resources:
            requests: {{cpu: "1", memory: 1Gi}}
            limits: {{memory: 2Gi}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {{drop: [ALL]}}
          volumeMounts:
            - {{name: data, mountPath: /var/lib/penstock}}
            - {{name: scratch, mountPath: /tmp}}
            - {{name: cluster-key, mountPath: /run/penstock, readOnly: true}}
      volumes:
        - name: cluster-key
          secret: {{secretName: {name}-cluster-key, defaultMode: 0440}}
        - {{name: scratch, emptyDir: {{}}}}
  volumeClaimTemplates:
    - metadata:
        name: data
      spec:
        accessModes: [ReadWriteOnce]
        resources: {{requests: {{storage: {storage}}}}}
"""


def kubernetes(
    *,
    nodes: Annotated[
        int, Parameter(metavar="COUNT", help="The number of nodes that found the cluster.")
    ] = 3,
    name: Annotated[str, Parameter(metavar="NAME", help="Name of all resources.")] = "penstock",
    storage: Annotated[
        str,
        Parameter(
            metavar="SIZE", help="The size of each node's disk, in the notation of Kubernetes."
        ),
    ] = "20Gi",
    image: Annotated[
        str, Parameter(metavar="NAME", help="The image of the broker.")
    ] = f"penstock:{__version__}",
    json: Json = False,
) -> None:
    """Print the manifests of a cluster for Kubernetes: StatefulSet, Services,
    PodDisruptionBudget, NetworkPolicy.

    Examples
    --------
    penstock generate kubernetes > penstock.yaml
    penstock generate kubernetes --nodes 5 --storage 100Gi --image example/penstock:1.0
    """
    if not 1 <= nodes <= NODES_MAX:
        raise CycloptsError(msg=f"--nodes = {nodes} must be from 1 to {NODES_MAX}.")
    if not NAME.fullmatch(name):
        raise CycloptsError(msg=f'--name = "{name}" must be small letters, digits and dashes.')
    if not SIZE.fullmatch(storage):
        raise CycloptsError(msg=f'--storage = "{storage}" must be a size such as 20Gi.')
    if not image.isprintable() or set(image) & set(" \"'#{}[]"):
        raise CycloptsError(msg=f'--image = "{image}" is not the name of an image.')
    print_text(kubernetes_text(nodes, name=name, storage=storage, image=image), json=json)


def kubernetes_text(nodes: int, *, name: str, storage: str, image: str) -> str:
    """The documents, one after the other."""
    members = [f"{one + 1}@{name}-{one}.{name}-peers:9192" for one in range(nodes)]
    services = SERVICES.format(version=__version__, name=name)
    return services + SET.format(
        name=name,
        nodes=nodes,
        storage=storage,
        image=image,
        cluster=",".join(members),
        spread="DoNotSchedule" if nodes > 1 else "ScheduleAnyway",
    )
