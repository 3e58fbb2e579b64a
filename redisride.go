package sluice

import "time"

// Riding together. A request that finds all of a pool's connections under way does not wait for one of its own: it
// gets in line, and whoever gets the next connection takes along all that stand there, in one write. So many clients
// at once cost the store and this process little more system calls than one, which is most of what a call costs. The
// answers come in the order of the calls, each a line.
//
// Nobody waits in line without a connection that is under way, whose leader has a deadline, and afterwards hands it
// to the next in line, or has failed and sends all that stand there another way.

// rider is a request in line.
type rider struct {
	call   []byte
	answer string
	ready  chan *respConn // gets a connection to lead, or nil when answer is all there will be
}

// away is the answer when there is no store to ask.
const away = "-"

// maxRiders bounds how many a leader takes along.
const maxRiders = 128

// board is the part of askLine that is for when no connection is idle. p is locked, and unlocked afterwards.
func board(p *pool, call []byte) string {
	if p.down {
		if !p.searching {
			searchLater(p)
		}
		p.mu.Unlock()
		return away
	}
	if p.owing || p.open == 0 {
		p.mu.Unlock()
		return ""
	}
	if p.open+p.dialing < p.server.poolSize {
		p.dialing++
		go connect(p, p.generation)
	}
	w := &rider{call: call, ready: make(chan *respConn, 1)}
	p.riders = append(p.riders, w)
	p.mu.Unlock()
	c := <-w.ready
	if c != nil {
		lead(p, c, w)
	}
	return w.answer
}

// lead asks for a rider and all that are behind it in line.
func lead(p *pool, c *respConn, first *rider) {
	p.mu.Lock()
	riders := p.riders
	if len(riders) > maxRiders {
		riders = riders[:maxRiders]
	}
	p.riders = p.riders[len(riders):]
	p.mu.Unlock()
	calls := append([]byte(nil), first.call...)
	for _, w := range riders {
		calls = append(calls, w.call...)
	}
	if now := int64(time.Since(start)); c.renewAt < now {
		renew(c, now, p.server.timeout)
	}
	_, err := c.net.Write(calls)
	failed := ""
	if err == nil {
		failed, err = readAnswer(c, first)
	}
	for _, w := range riders {
		if err == nil {
			line := ""
			if line, err = readAnswer(c, w); line != "" {
				failed = line
			}
		}
		w.ready <- nil
	}
	if err != nil || failed != "" {
		failedLine(p, c, failed, err)
		return
	}
	release(p, c)
}

// readAnswer reads a rider's answer. A line that is none it returns.
func readAnswer(c *respConn, w *rider) (string, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	if line[0] != statusReply {
		return string(line), nil
	}
	w.answer = string(line)
	return "", nil
}
