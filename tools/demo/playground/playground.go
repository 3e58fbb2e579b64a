// Package playground is the page for trying a limiter by hand: pick a route, send requests, watch what the gateway does.
//
// The page is plain HTML, CSS and JavaScript, embedded as it lies in this folder. It asks nothing of any other origin,
// and its Content-Security-Policy has the browser enforce that.
package playground

import (
	"embed"
	"net/http"
)

// Prefix is where the page lives, at the backend and through the gateway alike.
const Prefix = "/playground/"

//go:embed *.html *.css *.js *.svg
var files embed.FS

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page below Prefix.
func Handler() http.Handler {
	page := http.StripPrefix(Prefix, http.FileServerFS(files))

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		// Embedded files have no date, so a browser that kept one could never learn that it changed.
		header.Set("Cache-Control", "no-cache")
		page.ServeHTTP(w, r)
	})
}
