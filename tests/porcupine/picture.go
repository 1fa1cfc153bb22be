package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

var unfit = regexp.MustCompile(`[^A-Za-z0-9.]+`)

// draw writes Porcupine's picture of a history, or of one of its locks, as an HTML file.
func draw(of *history, directory, path string, limit time.Duration) (string, error) {
	var partitions [][]porcupine.Operation
	var spans []porcupine.Annotation
	owners := map[string]int{}
	for _, one := range of.holds {
		owner := one.Worker + "/" + one.Owner
		if _, known := owners[owner]; !known {
			owners[owner] = len(owners)
		}
		one.client = owners[owner]
	}
	for _, part := range partsOf(of) {
		if path != "" && part.path != path {
			continue
		}
		partitions = append(partitions, part.operations())
		for _, one := range part.holds {
			if !part.nodes && one.Ended != nil {
				spans = append(spans, porcupine.Annotation{
					Tag:         fmt.Sprintf("%d: %s/%s holds", one.client, one.Worker, one.Owner),
					Start:       one.Granted,
					End:         *one.Ended,
					Description: one.short(),
					Details:     one.String(),
				})
			}
		}
	}
	model := modelOf(everyRule)
	model.Partition = func([]porcupine.Operation) [][]porcupine.Operation { return partitions }
	_, info := porcupine.CheckOperationsVerbose(model, nil, limit)
	info.AddAnnotations(spans)
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", err
	}
	name := strings.Trim(unfit.ReplaceAllString(of.name+path, "-"), "-")
	file := filepath.Join(directory, name+".html")
	return file, porcupine.VisualizePath(model, info, file)
}
