# needs: kubectl
# packages: kubectl 1.32.4
export KUBECONFIG=/dev/null
echo ==OUTPUT==
{
for n in api web error-handler; do
kubectl create deployment $n --image=registry.example.com/$n:2.1 --replicas=3 --port=8080 --dry-run=client -o yaml; echo ---
kubectl create service clusterip $n --tcp=80:8080 --dry-run=client -o yaml; echo ---
kubectl create configmap $n-settings --from-literal=log.level=error --from-literal=retry.on=timeout,connection-refused --from-literal=fatal=exit --dry-run=client -o yaml; echo ---
kubectl create serviceaccount $n --dry-run=client -o yaml; echo ---
kubectl create role $n --verb=get,list,watch --resource=pods,configmaps --dry-run=client -o yaml; echo ---
kubectl create rolebinding $n --role=$n --serviceaccount=shop:$n --dry-run=client -o yaml; echo ---
kubectl create poddisruptionbudget $n --selector=app=$n --min-available=1 --dry-run=client -o yaml; echo ---
done
for h in shop admin errors; do kubectl create ingress $h --rule="$h.example.com/*=web:80,tls=$h-cert" --annotation nginx.ingress.kubernetes.io/custom-http-errors=404,503 --dry-run=client -o yaml; echo ---; done
kubectl create namespace shop --dry-run=client -o yaml; echo ---
kubectl create quota q --hard=cpu=8,memory=16Gi,pods=40 --dry-run=client -o yaml; echo ---
for i in 1 2 3 4; do kubectl create cronjob failed-job-sweeper-$i --image=registry.example.com/sweeper:1 --schedule="*/$i * * * *" --restart=OnFailure --dry-run=client -o yaml -- sweep --state=failed --limit=$i; echo ---; done
kubectl create priorityclass high --value=1000 --description="used when others failed" --dry-run=client -o yaml
} 2>&1
