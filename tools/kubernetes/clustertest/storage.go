package clustertest

import (
	"context"
	"os"
	"path/filepath"
	"time"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
)

// StorageClass is the class of volumes of the cluster, and its default.
const StorageClass = "folders"

const provisioner = "agenthost.test/folders"

func volumeFolder(claim string) string { return filepath.Join(scratch, "storage", claim) }

func (c *Cluster) createClass(ctx context.Context) error {
	_, err := c.client.StorageV1().StorageClasses().Create(ctx, &storage.StorageClass{
		ObjectMeta: meta.ObjectMeta{
			Name: StorageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: provisioner,
	}, meta.CreateOptions{})
	return err
}

// provideVolumes creates a volume for each claim of the class, and deletes those that were
// released, until the context ends.
func (c *Cluster) provideVolumes(ctx context.Context) {
	factory := informers.NewSharedInformerFactory(c.client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims().Lister()
	volumes := factory.Core().V1().PersistentVolumes().Lister()
	factory.Core().V1().PersistentVolumeClaims().Informer()
	factory.Core().V1().PersistentVolumes().Informer()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}

		pending, _ := claims.List(labels.Everything())
		for _, claim := range pending {
			if claim.Status.Phase == core.ClaimPending && claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName == StorageClass {
				c.createVolume(ctx, claim)
			}
		}

		all, _ := volumes.List(labels.Everything())
		for _, v := range all {
			if v.Status.Phase == core.VolumeReleased && v.DeletionTimestamp == nil {
				_ = os.RemoveAll(v.Spec.HostPath.Path)
				_ = c.client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, meta.DeleteOptions{}) // the next tick tries it again
			}
		}
	}
}

// createVolume creates the volume of a claim. It has no effect if the volume exists.
func (c *Cluster) createVolume(ctx context.Context, claim *core.PersistentVolumeClaim) {
	_, _ = c.client.CoreV1().PersistentVolumes().Create(ctx, &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{
			Name: "pvc-" + string(claim.UID), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner},
		},
		Spec: core.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: core.PersistentVolumeReclaimDelete, StorageClassName: StorageClass,
			PersistentVolumeSource: core.PersistentVolumeSource{HostPath: &core.HostPathVolumeSource{Path: volumeFolder(string(claim.UID))}},
			ClaimRef: &core.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}, meta.CreateOptions{})
}
