package sluice

import (
	"fmt"
	"log"
	"sort"
	"strings"
)

// What an operator reads in Traefik's log. What a plugin prints appears there at level DEBUG, what it logs with
// package log at ERROR; there is nothing between. A refusal is no error: by default refusals are reported at DEBUG,
// at most one line a limit and interval.

// Traefik puts its own time before a line.
func init() { log.SetFlags(0) }

// logging is how refusals are reported.
type logging struct {
	off      bool
	loud     bool  // at ERROR
	each     bool  // every one, at once
	interval int64 // nanoseconds between two lines of one limit
}

// maxLoggedKeys bounds for how many keys a limit counts refusals in one interval, shownKeys how many of them are
// shown.
const (
	maxLoggedKeys = 64
	shownKeys     = 5

	// exactRefusals is how many refusals in an interval are counted by key one by one; after them one of so many is,
	// and stands for all.
	exactRefusals = 64
)

// refusals is what a limit's table remembers of the refusals that it has not reported yet.
type refusals struct {
	title    string // of the limit, with what it does
	logging  *logging
	count    int64
	byKey    map[string]int64
	dropped  int64 // the table's at the last report
	reported int64 // when that was; 0 for never
	due      int64 // when the next one may be
}

// countRefusal notes that the charge was refused, or would have been were it not for a dry run, and returns the line
// to log, if it is time for one. The charge's table is locked; the line is for when it is not.
func countRefusal(ch *charge, now int64) string {
	l := ch.limit
	r := &l.table.refusals
	n := r.count
	r.count++
	if n >= exactRefusals && n%exactRefusals != 0 && now < r.due && !l.logging.each || l.logging.off {
		return ""
	}
	return countByKey(ch, n, now)
}

// countByKey is the rare half of countRefusal: for the first refusals after a report, and then for every so-manieth,
// which stands for those between.
func countByKey(ch *charge, n, now int64) string {
	l := ch.limit
	r := &l.table.refusals
	if l.logging.each {
		return l.title + " a request of " + shownKey(ch.key)
	}
	if n == 0 {
		r.title = l.title
		r.logging = l.logging
		r.byKey = map[string]int64{}
	}
	weight := int64(1)
	if n >= exactRefusals {
		weight = exactRefusals
		if n%exactRefusals != 0 {
			weight = 0 // it is only time for a line
		}
	}
	// A key that finds no place is counted, but not by name: in a flood from everywhere no single key matters.
	if len(r.byKey) < maxLoggedKeys || r.byKey[ch.key] > 0 {
		r.byKey[ch.key] += weight
	}
	if now < r.due {
		return ""
	}
	return report(l.table, now)
}

// report returns the line about a locked table's refusals since the last one, "" if there are none.
func report(t *table, now int64) string {
	r := &t.refusals
	if r.count == 0 || r.logging == nil {
		return ""
	}
	line := fmt.Sprintf("%s %d request", r.title, r.count)
	if r.count > 1 {
		line += "s"
	}
	if r.reported > 0 {
		line += fmt.Sprintf(" in %d s", (now-r.reported)/second)
	}
	line += ", most of " + strings.Join(mostRefused(r.byKey), ", ")
	if dropped := t.dropped - r.dropped; dropped > 0 {
		line += fmt.Sprintf("; %d keys were forgotten too early for lack of room, raise maxKeys", dropped)
	}
	r.count = 0
	r.dropped = t.dropped
	r.reported = now
	r.due = now + r.logging.interval
	return line
}

// announce logs what came of counting the refusals of a request.
func announce(charges []*charge) {
	for _, ch := range charges {
		if ch.line != "" {
			write(ch.limit.logging, ch.line)
		}
	}
}

// mostRefused is the keys that were refused most, with their counts.
func mostRefused(byKey map[string]int64) []string {
	keys := make([]string, 0, len(byKey))
	for key := range byKey {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool {
		a, b := keys[i], keys[j]
		return byKey[a] > byKey[b] || byKey[a] == byKey[b] && a < b
	})
	var shown []string
	for i, key := range keys {
		if i == shownKeys {
			break
		}
		shown = append(shown, fmt.Sprintf("%s (%d)", shownKey(key), byKey[key]))
	}
	return shown
}

func write(l *logging, line string) {
	if l.loud {
		log.Print(line)
		return
	}
	fmt.Println(line)
}
