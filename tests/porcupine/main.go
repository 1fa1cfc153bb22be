// Judges histories of locks with Porcupine, an external linearizability checker: see README.md.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

func main() {
	pictures := flag.String("pictures", "", "write an HTML file for each history into this `directory`")
	path := flag.String("path", "", "draw only the lock at this `path`")
	limit := flag.Duration("limit", time.Minute, "for how `long` to search for the order of one lock's operations")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "porcupine [options] FILE…: prints a verdict on each history, as JSON")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	out := bufio.NewWriter(os.Stdout)
	verdicts := json.NewEncoder(out)
	each := func(of *history) error {
		if err := verdicts.Encode(judge(of, *limit)); err != nil {
			return err
		}
		if *pictures == "" {
			return nil
		}
		file, err := draw(of, *pictures, *path, *limit)
		fmt.Fprintln(os.Stderr, file)
		return err
	}
	for _, name := range flag.Args() {
		if err := readFile(name, each); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(2)
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func readFile(name string, each func(*history) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return read(file, each)
}
