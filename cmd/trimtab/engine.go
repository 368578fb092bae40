package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
)

func newEngine(a *app) *cobra.Command {
	return group(a, "engine", "Install and describe the llama.cpp libraries",
		"Trimtab computes with llama.cpp's shared libraries, which it loads when it runs.",
		newEngineInstall(a), newEngineInfo(a))
}

const installLong = `Get the prebuilt llama.cpp libraries that this version of Trimtab was tested
with, and put them into your cache folder. Needs npm and the network once.

The package's sha512 is checked against the one written in this program. Nothing
is changed when the libraries are there and intact. Elsewhere installed
libraries need no install: name their folder with --lib or ` + libs.EnvVar + `.`

func newEngineInstall(a *app) *cobra.Command {
	o := libs.Options{}
	c := &cobra.Command{
		Use: "install", Short: "Get the libraries, once", Long: installLong, Args: noArgs,
		Example: "  trimtab engine install\n  trimtab engine install --backend cuda",
	}
	f := c.Flags()
	f.StringVar(&o.Backend, "backend", libs.Auto, "`NAME` of the back end: auto, "+strings.Join(libs.Backends(a.env.OS, a.env.Arch), ", "))
	f.StringVar(&o.CacheDir, "cache", "", "`DIR` to install below, instead of your cache folder")
	f.BoolVar(&o.Unpinned, "unpinned", false, "accept a package whose hash is not written in this program")
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, stop := a.interruptible(c.Context())
		defer stop()
		o.Env, o.Npm = a.env, a.npm
		p := newInstallProgress(a)
		o.Progress = p.report
		done, err := libs.Install(ctx, o)
		p.end()
		if err != nil {
			return err
		}
		printInstalled(a.out, done, o.CacheDir)
		return nil
	}
	return c
}

func printInstalled(w io.Writer, i libs.Installed, cache string) {
	what := "installed"
	switch {
	case i.Already:
		what = "already there and intact"
	case i.Repaired:
		what = "repaired"
	}
	fmt.Fprintf(w, "llama.cpp %s (%s) %s: %s\n", libs.LlamaVersion, i.Backend, what, i.Dir)
	if !i.Pinned {
		fmt.Fprintln(w, "its hash was not checked against this program, only against npm's registry")
	}
	if cache != "" {
		fmt.Fprintf(w, "use it with --lib or %s, because it is not in your cache folder\n", libs.EnvVar)
	}
}

// engineInfo is what `engine info` prints; its JSON form is documented.
type engineInfo struct {
	Version  string       `json:"version"`
	Dir      string       `json:"dir"`
	Source   string       `json:"source"`
	Backends []string     `json:"backends"`
	Devices  []deviceInfo `json:"devices"`
	Features string       `json:"features"`
}

// deviceInfo is llamacpp.Device with the documented names.
type deviceInfo struct {
	Name        string `json:"name"`
	Backend     string `json:"backend"`
	Description string `json:"description"`
	Kind        string `json:"kind"`
	Free        uint64 `json:"free"`
	Total       uint64 `json:"total"`
}

func newEngineInfo(a *app) *cobra.Command {
	var lib string
	var asJSON bool
	c := &cobra.Command{
		Use: "info", Short: "Show which libraries are used, and the devices", Args: noArgs,
		Long: "Load the llama.cpp libraries and print their version, where they were found,\nthe back ends, the devices and what the processor code was built for.",
	}
	c.Flags().StringVar(&lib, "lib", "", "`DIR` with the llama.cpp libraries")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.RunE = func(*cobra.Command, []string) error {
		set, err := libs.Find(lib, a.env)
		if err != nil {
			return err
		}
		l, err := llamacpp.Load(set)
		if err != nil {
			return err
		}
		i := engineInfo{Version: l.Version(), Dir: set.Dir, Source: set.Source, Backends: set.Backends, Features: l.Features()}
		for _, d := range l.Devices() {
			i.Devices = append(i.Devices, deviceInfo(d))
		}
		return i.print(a.out, asJSON)
	}
	return c
}

func (i engineInfo) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(i)
	}
	fmt.Fprintf(w, "llama.cpp  %s\nfolder     %s (%s)\nmodules    %s\n", i.Version, i.Dir, i.Source, orNone(strings.Join(i.Backends, ", ")))
	for _, d := range i.Devices {
		fmt.Fprintf(w, "device     %s: %s, %s, %s\n", d.Name, d.Description, d.Backend, memory(d.Free, d.Total))
	}
	for _, part := range strings.Split(i.Features, "\n") {
		if part = strings.TrimSpace(part); part != "" {
			fmt.Fprintf(w, "features   %s\n", part)
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none beside them (built in)"
	}
	return s
}

func memory(free, total uint64) string {
	if total == 0 {
		return "memory unknown"
	}
	return fmt.Sprintf("%s free of %s", size(int64(min(free, 1<<62))), size(int64(min(total, 1<<62))))
}
