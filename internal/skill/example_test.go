package skill_test

import (
	"context"
	"fmt"
	"log"
	"path/filepath"

	"github.com/seed93082962/agenthost/internal/skill"
)

// The skills of a project are listed by name and description. The body of a chosen skill is read.
func Example() {
	project, err := filepath.Abs("testdata/project")
	if err != nil {
		log.Fatal(err)
	}
	scanner, err := skill.New(skill.Config{CWD: project})
	if err != nil {
		log.Fatal(err)
	}
	skills, err := scanner.Scan(context.Background(), []string{skill.User, skill.Project}, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range skills {
		fmt.Printf("%s (%s): %.30q\n", s.Name, s.Source, s.Description)
	}
	body, err := skills[3].Body()
	fmt.Println(body, err)
	// Output:
	// bare (project): ""
	// commit (project): "Writes commit messages.\n中文提交信息"
	// pdf (project): "Reads and fills in PDF forms. "
	// pdf-forms (project): "Fills in PDF forms."
	// release-notes (project): "Use this: when a version is ab"
	// Run `fill.py FILE`. <nil>
}

func ExampleParse() {
	doc, err := skill.Parse([]byte("---\nname: pdf\ndescription: Use this: when a file ends in .pdf\n---\n# Forms\n"))
	fmt.Printf("%q %q %q\n%v\n", doc.Name, doc.Description, doc.Body, err)
	// Output:
	// "pdf" "Use this: when a file ends in .pdf" "# Forms"
	// the frontmatter is read line by line: yaml: line 3: mapping values are not allowed in this context
}
