// Exercises a server through go-redis. The port comes as the first argument; what differs from Redis ends it with an error.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func must(what string, ok bool, err error) {
	if err != nil || !ok {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func exercise(ctx context.Context, client *redis.Client) {
	must("set", client.Set(ctx, "go", "1", 0).Val() == "OK", nil)
	n, err := client.Incr(ctx, "go").Result()
	must("incr", n == 2, err)
	_, err = client.Get(ctx, "missing").Result()
	must("get of nothing", errors.Is(err, redis.Nil), nil)
	set, err := client.SetNX(ctx, "go", "x", time.Minute).Result()
	must("setnx", !set, err)
	must("set with ttl", client.Set(ctx, "short", "1", time.Minute).Err() == nil, nil)
	ttl, err := client.TTL(ctx, "short").Result()
	must("ttl", ttl > 50*time.Second, err)

	pipe := client.Pipeline()
	for i := 0; i < 500; i++ {
		pipe.Set(ctx, fmt.Sprintf("go:%03d", i), i, 0)
	}
	_, err = pipe.Exec(ctx)
	must("pipeline", true, err)

	count := 0
	scan := client.Scan(ctx, 0, "go:*", 50).Iterator()
	for scan.Next(ctx) {
		count++
	}
	must(fmt.Sprintf("scan of %d", count), count == 500, scan.Err())

	err = client.Watch(ctx, func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, "go")
			return nil
		})
		return err
	}, "go")
	must("watch", true, err)
	must("the end", client.Get(ctx, "go").Val() == "3", nil)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		exercise(ctx, client)
		client.Close()
	}
	fmt.Println("ok")
}
