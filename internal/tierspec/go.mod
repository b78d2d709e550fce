module isthmus/internal/tierspec

go 1.26.0
