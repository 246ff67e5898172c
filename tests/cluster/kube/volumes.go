package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	kube "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	provisioner   = "slatekeeper.io/folder"
	chosenNode    = "volume.kubernetes.io/selected-node" // the scheduler's mark: a pod that uses the claim goes there
	provisionedBy = "pv.kubernetes.io/provisioned-by"
)

// A shelf hands out folders of the node as persistent volumes, and removes them when their claims are gone. Unlike the
// controller manager's own host path provisioner it lets every user write to them: pods that obey the restricted Pod
// Security level are never root.
type shelf struct {
	root    string
	node    string
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
}

// volumes runs the provisioner of the default storage class until it is told to stop.
func volumes() error {
	flags := flag.NewFlagSet("volumes", flag.ExitOnError)
	root := flags.String("root", "", "folder whose sub-folders are the volumes")
	node := flags.String("node", "", "name of the node that has it")
	kubeconfig := flags.String("kubeconfig", "", "how to reach the API server")
	_ = flags.Parse(os.Args[1:]) // ends the program itself
	return watch(*kubeconfig, func(v view) ([]cache.SharedIndexInformer, func(context.Context) error) {
		claims, volumes := v.Core().V1().PersistentVolumeClaims(), v.Core().V1().PersistentVolumes()
		classes := v.Storage().V1().StorageClasses()
		s := &shelf{filepath.Clean(*root), *node, v.client, claims.Lister(), volumes.Lister(), classes.Lister()}
		return []cache.SharedIndexInformer{claims.Informer(), volumes.Informer(), classes.Informer()}, s.look
	})
}

func (s *shelf) look(ctx context.Context) error {
	claims, err := s.claims.List(labels.Everything())
	if err != nil {
		return err
	}
	volumes, err := s.volumes.List(labels.Everything())
	if err != nil {
		return err
	}
	var failed []error
	for _, claim := range claims {
		failed = append(failed, s.provide(ctx, claim))
	}
	for _, volume := range volumes {
		failed = append(failed, s.reclaim(ctx, volume))
	}
	return errors.Join(failed...)
}

func (s *shelf) provide(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	if claim.Status.Phase != core.ClaimPending || claim.Spec.VolumeName != "" || claim.Spec.StorageClassName == nil {
		return nil
	}
	class, err := s.classes.Get(*claim.Spec.StorageClassName)
	if err != nil || class.Provisioner != provisioner {
		return nil // somebody else's, or a class that does not exist: the claim waits, as it would anywhere
	}
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storage.VolumeBindingWaitForFirstConsumer
	if waits && claim.Annotations[chosenNode] != s.node {
		return nil
	}
	name := "pvc-" + string(claim.UID) // so that a second look finds what the first one made
	path := filepath.Join(s.root, name)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o777); err != nil { // past the umask
		return err
	}
	_, err = s.client.CoreV1().PersistentVolumes().Create(ctx, s.volume(name, path, claim, class), meta.CreateOptions{})
	if kube.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (s *shelf) volume(name, path string, claim *core.PersistentVolumeClaim, class *storage.StorageClass) *core.PersistentVolume {
	here := core.NodeSelectorRequirement{Key: core.LabelHostname, Operator: core.NodeSelectorOpIn, Values: []string{s.node}}
	return &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: provisioner}},
		Spec: core.PersistentVolumeSpec{
			Capacity:                      claim.Spec.Resources.Requests,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              class.Name,
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy, // the API server fills it in
			PersistentVolumeSource:        core.PersistentVolumeSource{HostPath: &core.HostPathVolumeSource{Path: path}},
			ClaimRef: &core.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &core.VolumeNodeAffinity{Required: &core.NodeSelector{
				NodeSelectorTerms: []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{here}}},
			}},
		},
	}
}

func (s *shelf) reclaim(ctx context.Context, volume *core.PersistentVolume) error {
	if volume.Annotations[provisionedBy] != provisioner || volume.Status.Phase != core.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != core.PersistentVolumeReclaimDelete {
		return nil
	}
	path := volume.Spec.HostPath.Path
	if filepath.Dir(path) != s.root { // the object may have been edited since, and what follows cannot be undone
		return fmt.Errorf("volume %s names %s, which is not a folder of %s: not removed", volume.Name, path, s.root)
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	err := s.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, meta.DeleteOptions{})
	if kube.IsNotFound(err) {
		return nil
	}
	return err
}
