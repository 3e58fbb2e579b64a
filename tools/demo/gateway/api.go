package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Router is what Traefik's API says about a router.
type Router struct {
	Name   string   `json:"name"`   // with its provider: "data@file"
	Status string   `json:"status"` // enabled, disabled or warning
	Errors []string `json:"error"`  // why it is disabled; a plugin's complaint about its options stands here
}

// API is where Traefik's API listens.
func (g *Gateway) API() string {
	return g.URL("traefik")
}

// Routers asks for all HTTP routers, in no particular order.
func (g *Gateway) Routers(ctx context.Context) ([]Router, error) {
	var routers []Router
	err := g.get(ctx, "/api/http/routers?per_page=10000", &routers)
	return routers, err
}

// WaitRouter waits until Traefik knows a router, be it enabled or not, and returns it.
func (g *Gateway) WaitRouter(ctx context.Context, name string) (Router, error) {
	for {
		var router Router
		err := g.get(ctx, "/api/http/routers/"+name, &router)
		if err == nil {
			return router, nil
		}
		select {
		case <-g.exited:
			return router, fmt.Errorf("Traefik ended while router %s was waited for:\n%s", name, g.log.tail(10))
		case <-ctx.Done():
			return router, fmt.Errorf("no router %s: %w\n%s", name, ctx.Err(), g.log.tail(10))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// get reads one of the API's answers into target, if that is not nil.
func (g *Gateway) get(ctx context.Context, path string, target any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.API()+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, response.Status)
	}
	if target == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(target)
}
