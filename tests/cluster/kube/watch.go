package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	settle = 20 * time.Millisecond // one change seldom comes alone: a pod and its address, a namespace and its policies
	again  = time.Second           // after a failure, which the next look may not see any more
)

// A view is what a controller looks at: informers that it has asked for, and the client to act with.
type view struct {
	informers.SharedInformerFactory
	client kubernetes.Interface
}

// watch calls look whenever one of the informers that prepare asked for has seen a change, until the process is told to
// stop. A look sees everything and sets everything right, so a change that was missed is put right by the next one.
func watch(kubeconfig string, prepare func(view) (watched []cache.SharedIndexInformer, look func(context.Context) error)) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	changed := make(chan struct{}, 1)
	note := func() {
		select {
		case changed <- struct{}{}:
		default: // one is waiting already
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	watched, look := prepare(view{factory, client})
	for _, informer := range watched {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { note() },
			UpdateFunc: func(_, _ any) { note() },
			DeleteFunc: func(any) { note() },
		})
		if err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	note()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		time.Sleep(settle)
		if err := look(ctx); err != nil {
			log.Print(err)
			time.AfterFunc(again, note)
		}
	}
}
