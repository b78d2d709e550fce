module isthmus/internal/adminapi

go 1.26.0
